"""The architectures of this lane: one small member of each family, fixed here so that runs compare."""

# Any size of image will do; this one is quick.
SMALL_IMAGE = 64
CONVOLUTIONAL = (
    "resnet10t", "resnet18", "resnext26ts", "skresnet18", "ecaresnet26t", "densenet121",
    "dla34", "dpn48b", "ese_vovnet19b_dw", "hrnet_w18_small", "mobilenetv2_050", "mobilenetv3_small_050",
    "mobilenetv4_conv_small", "efficientnet_b0", "efficientnetv2_rw_t", "tf_efficientnet_lite0", "mixnet_s",
    "mnasnet_small", "fbnetc_100", "tinynet_e", "lcnet_050", "ghostnet_050", "regnetx_002", "regnety_002", "repvgg_a0",
    "rexnet_100", "cspresnet50", "convnext_atto", "convnextv2_atto", "hgnetv2_b0", "inception_next_atto", "starnet_s1",
    "mambaout_femto", "nf_regnet_b0", "selecsls42", "repvit_m0_9",
)  # fmt: skip
# Images as large as the architecture says.
OWN_SIZE = (
    "vit_tiny_patch16_224", "deit_tiny_patch16_224", "xcit_nano_12_p16_224", "levit_128s", "mobilevit_xxs",
    "mobilevitv2_050", "edgenext_xx_small", "poolformer_s12", "mixer_s32_224", "resmlp_12_224", "gmlp_ti16_224",
    "coat_lite_tiny", "visformer_tiny", "efficientvit_b0", "fastvit_t8", "pvt_v2_b0", "tiny_vit_5m_224", "pit_ti_224",
    "swin_tiny_patch4_window7_224", "eva02_tiny_patch14_224", "gcvit_xxtiny", "coatnet_pico_rw_224",
)  # fmt: skip
ARCHITECTURES = (*CONVOLUTIONAL, *OWN_SIZE)
