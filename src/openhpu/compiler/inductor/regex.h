// A recipe's wrapper looks at its device's name with a regular expression. Compiling what compiles and runs that takes
// most of the wrapper's time. So it is compiled once, with the interface of recipes: a wrapper includes this file with
// `extern` for OPENHPU_EXTERN, and the interface with nothing.
#include <regex>
#include <string>
#ifdef __GLIBCXX__
OPENHPU_EXTERN template class std::__detail::_Compiler<std::regex_traits<char>>;
OPENHPU_EXTERN template class std::__detail::_Scanner<char>;
#if _GLIBCXX_RELEASE >= 12
OPENHPU_EXTERN template bool std::__detail::__regex_algo_impl(
    std::string::const_iterator, std::string::const_iterator, std::smatch&, const std::regex&,
    std::regex_constants::match_flag_type, std::__detail::_RegexExecutorPolicy, bool);
#endif
#endif
